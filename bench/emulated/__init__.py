"""Programs for other processors under qemu's user mode: are they right, what do they execute."""
