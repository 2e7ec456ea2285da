"""What benchmarks need: time and memory of a loss beside what people write today."""
