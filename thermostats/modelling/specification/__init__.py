"""The specification curve: an estimate under every defensible choice, and one joint test of all of them."""
