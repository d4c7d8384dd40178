"""What a node becomes: disk layouts, installers' answers, the NVIDIA stack, node files, image builds."""
