from headnode.cli import main

main()
