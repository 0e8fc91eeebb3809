"""The other libraries that the benchmark times beside vkdml, each in a process of its own."""
