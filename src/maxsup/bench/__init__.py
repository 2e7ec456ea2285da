"""Tools of benchmarks: time, memory and traffic of a loss beside what people write today."""
