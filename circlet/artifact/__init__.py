"""Files of compiled plans, and the folder that keeps them; knows no backend by name."""
