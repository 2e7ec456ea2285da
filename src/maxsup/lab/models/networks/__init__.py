"""Networks written here, one module each; each registers itself."""
