"""Networks of other libraries and files behind the interface of this package."""
