from __future__ import annotations

from tools.cost_errors import tables

MISSES = {"threads": 1, "median": 1.25, "worst": 2.0}
REPORT = {
    "machine": {"cpu": "a CPU", "cores": 4},
    "others": 0.25,
    "partitions": [{"backend": "cpu"}, {"backend": "litert"}],
    "networks": [
        {
            "model": "folder/net.tflite",
            "wholes": [
                {"backend": "cpu", "predicted_us": [50, 1, 2], "measured_us": [40, 1, 2]},
                {"backend": "litert", "predicted_us": None, "measured_us": None},
            ],
        }
    ],
    "misses": [
        {**MISSES, "backend": "cpu", "family": "CONV_2D", "left_out": "operator", "count": 9},
        {**MISSES, "backend": "cpu", "family": "ADD", "left_out": "operator", "count": 3},
    ],
}


def test_the_tables_of_errors_are_made_of_a_report() -> None:
    lines = list(tables(REPORT))
    assert lines[0].startswith("Measured on a CPU, 4 cores, while other processes used 0.2")
    assert "| net | 50 / 40 = 1.25 | - |" in lines
    assert "| CONV_2D | 1.25, 2.00 (9) | - | - | - |" in lines
    assert not any("ADD" in line for line in lines)
