"""What a training is judged by: metrics, and the time to a target."""
