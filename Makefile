# Two commands do everything on a fresh Debian 12 or Ubuntu machine:
#   make lab     a scratch site on this machine, with nodes enrolled and published
#   make test    everything that .ci/run runs
# Both install what they need, and both can be run again.

PYTHON ?= python3
VENV := .venv
# Ubuntu's own schema of autoinstall documents, where it is at hand; the tests compare ours with it.
export AUTOINSTALL_SCHEMA ?= $(abspath $(wildcard ../shared/data/autoinstall-schema.json))
LAB := .lab
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# Programs that Headnode runs, and those that only its tests need. Names only: the distribution pins versions.
RUN_PACKAGES := python3-venv dnsmasq-base nginx-light ipxe iproute2 util-linux mmdebstrap zstd \
    grub-common grub-pc-bin xorriso mtools pci.ids grub-efi-amd64-bin shim-signed grub-efi-amd64-signed
TEST_PACKAGES := $(RUN_PACKAGES) postgresql openipmi ipmitool qemu-system-x86 ovmf seabios ipxe-qemu \
    busybox udhcpc dosfstools fdisk mdadm lvm2 xfsprogs \
    libparted2 libparted-fs-resize0 dpkg-dev kmod \
    e2fsprogs mount netplan.io openssh-server openssh-client chrony sudo sssd-common sssd-tools systemd

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: lab
lab: run-packages $(VENV)/installed ## Set up a scratch cluster below .lab and publish it
	@test -e $(LAB)/etc/headnode/site.yaml || \
	    HEADNODE_ROOT=$(LAB) $(VENV)/bin/headnode init --yes --cluster lab --domain lab.test \
	        --provision-interface hnprov0 --management-interface hnmgmt0
	HEADNODE_ROOT=$(LAB) $(VENV)/bin/headnode enroll --from docs/examples/nodes.csv --yes
	HEADNODE_ROOT=$(LAB) $(VENV)/bin/headnode nodes
	@echo "Try: HEADNODE_ROOT=$(LAB) $(VENV)/bin/headnode show gpu01"

.PHONY: test
test: test-packages $(VENV)/tox-installed ## Lint, type-check and test everything
	$(VENV)/bin/tox run

.PHONY: docs
docs: $(VENV)/installed ## Write the generated pages of docs/reference anew
	$(VENV)/bin/python -m headnode.cli.reference docs

.PHONY: format
format: $(VENV)/installed ## Format the code
	$(VENV)/bin/ruff check --fix --quiet .
	$(VENV)/bin/ruff format .

.PHONY: clean
clean: ## Remove everything that was made
	rm -rf $(VENV) .tox $(LAB) build dist *.egg-info

.PHONY: run-packages test-packages
run-packages:
	@$(SUDO) sh tests/install-packages $(RUN_PACKAGES)
test-packages:
	@$(SUDO) sh tests/install-packages $(TEST_PACKAGES)

$(VENV)/installed: setup.cfg constraints.txt | run-packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,postgresql]'
	touch $@

# tox makes environments of its own, so it only needs itself.
$(VENV)/tox-installed: constraints.txt | test-packages
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt tox
	touch $@
