"""The launcher: the small process that keeps the rights to run jobs, so that the controller needs none.

It runs as root where jobs belong to several users, else as the user of the controller. Standard library and a few
modules of `agent` only. It parses no network input; the controller asks it for what is listed in serve.py.
"""
