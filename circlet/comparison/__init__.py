"""Other engines on the same network, interleaved with Circlet in processes of their own."""
