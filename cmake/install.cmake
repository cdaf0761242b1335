# What `cmake --install` and the Debian packages put where.
