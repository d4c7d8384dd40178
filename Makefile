# Two commands do everything on a fresh Debian 12 or Ubuntu machine:
#   make lab     a whole cluster on this machine: a head node and two emulated nodes, installed and up
#   make test    everything that .ci/run runs
# Both install what they need, and both can be run again.

PYTHON ?= python3
VENV := .venv
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# Programs that Headnode runs, those of emulated machines, and those that only its tests need. Names only: the
# distribution pins versions.
RUN_PACKAGES := python3-venv slapd openssl dnsmasq-base nginx-light ipxe iproute2 util-linux mmdebstrap zstd \
    grub-common grub-pc-bin xorriso mtools pci.ids grub-efi-amd64-bin shim-signed grub-efi-amd64-signed chrony \
    nfs-ganesha nfs-ganesha-vfs apt-cacher-ng apt-utils
LAB_PACKAGES := $(RUN_PACKAGES) openipmi qemu-system-x86 ovmf seabios ipxe-qemu nftables openssh-client
TEST_PACKAGES := $(LAB_PACKAGES) chromium postgresql ipmitool \
    busybox udhcpc dosfstools fdisk mdadm lvm2 xfsprogs libparted2 libparted-fs-resize0 dpkg-dev kmod gpg \
    e2fsprogs mount netplan.io openssh-server sudo sssd-common sssd-tools sssd-ldap libnss-sss libpam-sss \
    libsss-sudo ldap-utils systemd libnfs-utils curl \
    vagrant libvirt-clients shellcheck

# The pages' scripts come from npm; where they are, or it is installed already, however it came there, it is not
# installed again.
NPM_PACKAGES := $(if $(or $(wildcard headnode/web/static/vendor/htmx.min.js),$(shell command -v npm)),,nodejs npm)

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: lab
lab: ## Bring up a cluster of emulated machines on this machine, with two nodes installed; 'headnode lab down' removes it
	@begun=$$(date +%s) && $(MAKE) --no-print-directory lab-packages $(VENV)/installed $(VENV)/assets && \
	    $(SUDO) $(VENV)/bin/headnode lab up --deploy --since $$begun

.PHONY: test
test: test-packages $(VENV)/tox-installed ## Lint, type-check and test everything
	$(VENV)/bin/tox run

.PHONY: install
install: run-packages ## Install or upgrade Headnode on this machine (docs/install.md)
	$(SUDO) headnode/packaging/install

.PHONY: uninstall
uninstall: ## Take Headnode off this machine; PURGE=1 also takes its configuration and data
	$(SUDO) env PURGE=$(PURGE) headnode/packaging/uninstall

.PHONY: deb
deb: run-packages ## Make a Debian package in dist/
	headnode/packaging/deb dist $(filter-out python3-venv,$(RUN_PACKAGES))

.PHONY: docs
docs: $(VENV)/installed ## Write the generated pages of docs/reference anew
	$(VENV)/bin/python -m headnode.cli.reference docs

.PHONY: format
format: $(VENV)/installed ## Format the code
	$(VENV)/bin/ruff check --fix --quiet .
	$(VENV)/bin/ruff format .

.PHONY: clean
clean: ## Remove everything that was made
	rm -rf $(VENV) .tox build dist *.egg-info

.PHONY: run-packages lab-packages test-packages
run-packages:
	@$(SUDO) sh tests/install-packages $(RUN_PACKAGES) $(NPM_PACKAGES)
lab-packages:
	@$(SUDO) sh tests/install-packages $(LAB_PACKAGES) $(NPM_PACKAGES)
test-packages:
	@$(SUDO) sh tests/install-packages $(TEST_PACKAGES) $(NPM_PACKAGES)

$(VENV)/installed: setup.cfg constraints.txt | run-packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,postgresql]'
	touch $@

$(VENV)/assets: headnode/web/package-lock.json headnode/web/vendor.py | $(VENV)/installed
	$(VENV)/bin/python -m headnode.web.vendor
	touch $@

# tox makes environments of its own, so it only needs itself.
$(VENV)/tox-installed: constraints.txt | test-packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt tox
	touch $@
