"""A script as it is written for LiteRT; the import is all that changes.

python examples/litert_script.py
"""

from __future__ import annotations

from circlet import Interpreter  # instead of: from ai_edge_litert.interpreter import Interpreter
from circlet.sample import Sample


def main() -> None:
    """Classify a digit."""
    interpreter = Interpreter(str(Sample("int8").model_path), num_threads=2)
    interpreter.allocate_tensors()
    (taken,) = interpreter.get_input_details()
    (given,) = interpreter.get_output_details()
    interpreter.set_tensor(taken["index"], Sample("int8").image())
    interpreter.invoke()
    quantised = interpreter.get_tensor(given["index"])
    scale, zero_point = given["quantization"]
    scores = (quantised.astype(float) - zero_point) * scale
    print(f"{taken['name']} {taken['shape'].tolist()} -> {given['name']}")
    print(f"digit {scores.argmax()} with probability {scores.max():.3f}")


if __name__ == "__main__":
    main()
