"""The agent: what runs on a node that was started over the network, to look at it and to give it its system.

It uses Python's standard library and the ramdisk's programs, and nothing else of Headnode: the ramdisk holds this one
directory. The plan is made on the head node; here it is checked once more and carried out.
"""
