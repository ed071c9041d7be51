"""The Signal library of TFLite Micro."""
