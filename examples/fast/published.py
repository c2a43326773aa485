"""The numbers of FAST (Zhang, McDanel and Kung, HPCA 2022) that the study prints beside its own: table II."""

from __future__ import annotations

COLUMNS = ("FP32", "bf16", "MP", "INT8", "INT12", "MSFP12", "LowBFP", "MidBFP", "HighBFP", "HFP8", "FAST")
TABLE_2 = {
    "ResNet-18, top-1 (%)": (68.60, 68.55, 68.57, 65.53, 68.51, 68.13, 63.10, 68.10, 68.57, 68.53, 68.52),
    "ResNet-50, top-1 (%)": (75.17, 75.12, 75.16, 71.01, 75.03, 74.79, 72.10, 73.98, 75.13, 75.07, 75.11),
    "MobileNet-v2, top-1 (%)": (68.27, 68.22, 68.28, 65.97, 68.16, 68.11, 64.42, 66.93, 68.20, 68.11, 68.17),
    "VGG-16, top-1 (%)": (69.74, 69.71, 69.70, 64.50, 69.33, 69.32, 64.10, 69.08, 69.79, 69.62, 69.78),
    "Transformer, BLEU": (35.41, 35.39, 35.42, 29.18, 35.27, 35.33, 34.22, 35.40, 35.43, 35.38, 35.40),
    "YOLOv2, mAP (%)": (73.36, 73.32, 73.35, 61.12, 73.07, 72.93, 65.37, 71.04, 73.30, 72.88, 73.28),
}
"""Values of the columns after training in their arithmetic."""
