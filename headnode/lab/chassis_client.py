"""What ipmi_sim runs as its chassis_control program: passes one question to the lab's chassis socket.

It runs for every power and boot command and blocks the simulator meanwhile, so it imports almost nothing
and is started with `python3 -I -S`.
"""

import socket
import sys


def main(arguments: list[str]) -> int:
    path, *words = arguments
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(path)
        connection.sendall((" ".join(words) + "\n").encode())
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    sys.stdout.write(answer.decode())
    return 1 if answer.startswith(b"error") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
