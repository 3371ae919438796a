# make setup   the machine and .venv, ready to run
# make test    the test suite, on lavapipe and SwiftShader with the validation layer (ARGS="-k sphere" for a part)
# make demo    shape and texture of a pear from six pictures (TARGET=mesh.glb for another one), into out/demo
# make lint    ruff and pyright
# make format  ruff's formatter

.PHONY: setup test demo lint format
PYTHON_VENV := .venv/bin/python

setup:
	@.ci/setup run

test:
	@.ci/setup test
	PYTHONDONTWRITEBYTECODE= $(PYTHON_VENV) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(ARGS)

OUT ?= out/demo
PEAR = from dressi.render.io import save_mesh; from dressi.render.mesh.primitives import pear; save_mesh("$@", pear())
demo: $(if $(TARGET),,$(OUT)/pear.glb)
	@.ci/setup run
	.venv/bin/dressi fit --target "$(or $(TARGET),$(OUT)/pear.glb)" --views 6 --size 256 --out "$(OUT)" $(ARGS)

$(OUT)/pear.glb:
	@.ci/setup run
	@mkdir -p "$(@D)"
	$(PYTHON_VENV) -c '$(PEAR)'

lint:
	@.ci/setup test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

format:
	.venv/bin/ruff format .
