"""The numpy backend: runs any operator that has a record, exactly and slowly."""
