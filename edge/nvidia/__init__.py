"""NVIDIA's libraries, each imported in one module, whatever their version."""
