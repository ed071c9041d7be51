"""The rows of the lowering table, one module per family; importing this fills the table."""
