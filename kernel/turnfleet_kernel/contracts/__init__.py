"""The values that cross the kernel's border: plain data, no engine."""
