"""What is on disk: run directories, checkpoints, arrays; written so that nothing is half there, read without trust."""
