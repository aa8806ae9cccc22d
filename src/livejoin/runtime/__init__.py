"""The machine: jars, JVM class archives, child processes, the embedded broker."""
