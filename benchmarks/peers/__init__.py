"""The schedulers that people use today, each stock, on the services that ours is measured on.

Each module is a program for the environment of ``requirements-peers.txt``. It has more due each second than the peer
can fire, and counts the messages that arrived in one quorum queue, which is purged every second. Its last line is
JSON; ``fires_per_s`` is what `make bench` compares.
"""
