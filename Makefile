# make setup   the machine and .venv, ready to run
# make test    the test suite, on lavapipe and SwiftShader with the validation layer (ARGS="-k sphere" for a part)
# make release everything: the suite with programs, the wheel and every case of the benchmark, then all other drivers
# make quick   a part of it (QUICK below) on the first driver alone, in about a minute and a half on two cores
# make drivers a part of it on a current lavapipe, and every bench case built by GPU drivers of Mesa that execute nothing;
#              they are fetched once and installed nowhere (.ci/drivers); ARGS="nvk radv" for some of them
# make demo    shape and texture of a pear from six pictures (TARGET=mesh.glb for another one), into out/demo
# make lint    ruff and pyright
# make format  ruff's formatter

.PHONY: setup test release quick drivers demo lint format
PYTHON_VENV := .venv/bin/python

setup:
	@.ci/setup run

test:
	@.ci/setup test
	PYTHONDONTWRITEBYTECODE= $(PYTHON_VENV) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(ARGS)

release:
	@$(MAKE) --no-print-directory test ARGS="--release $(ARGS)"
	@$(MAKE) --no-print-directory drivers ARGS=

# What every other part stands on: the rules of the house, graphs and derivatives, plans, and the drawing of meshes, without
# the files that take longest.
QUICK = $(addprefix tests/,test_house.py test_imports.py test_docstrings.py ad vk/plan vk/test_plans.py vk/test_optimizers.py \
	render/mesh render/cameras render/forms render/drawing) \
	$(addprefix --ignore=tests/,vk/plan/test_pack.py ad/ops/test_anisotropic.py)
quick:
	@.ci/setup test
	PYTHONDONTWRITEBYTECODE= $(PYTHON_VENV) -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal --one-driver $(QUICK) $(ARGS)

drivers:
	@.ci/setup test
	.ci/drivers check $(ARGS)

OUT ?= out/demo
PEAR = from dressi.render import save_mesh; from dressi.render.mesh.primitives import pear; save_mesh("$@", pear())
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
	.venv/bin/pyright

format:
	.venv/bin/ruff format .
