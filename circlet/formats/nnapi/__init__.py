"""Networks as the Android Neural Networks API describes them, and what they mean in records."""
