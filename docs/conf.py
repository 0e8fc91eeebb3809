"""Settings of the site that `./run docs` builds with Sphinx."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import vkdml

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs" / "_extensions"))

project = "vkdml"
author = "The authors of vkdml"
project_copyright = f"{author}; Apache-2.0"
release = version = vkdml.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "named_in_code",
    "repository_files",
    "signatures",
]
exclude_patterns = ["_*", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]

# ---- Markdown ----------------------------------------------------------------------------------------------

# Directives stand between colons: pages are read in the repository too, and the tests run what fences hold.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# The address below which the repository's files can be read, as in pyproject.toml: links to files lead there.
repository_files = re.search(r'^files = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]

# ---- names and references ----------------------------------------------------------------------------------

nitpicky = True
# What docstrings name of other libraries, whose sites are not asked, and names of vkdml that are not public.
nitpick_ignore_regex = [
    (r"py:.*", r"(np|npt|numpy|dask|onnx|ml_dtypes|torch|collections|types|typing)\..*"),
    (r"py:class", r"signatures\.DTypeLike|vkdml\.(.*\.)?_\w+"),
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 120
python_use_unqualified_type_names = True
add_module_names = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# ---- the gallery -------------------------------------------------------------------------------------------

# Examples run on the driver that `./run docs` chooses, which may compute on the processor.
warnings.filterwarnings("ignore", category=vkdml.SoftwareDeviceWarning)

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "doc_module": ("vkdml",),
    # What is printed is shown, and pictures; not what the last expression is.
    "capture_repr": (),
    "backreferences_dir": None,
}

# ---- HTML --------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "vkdml"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["vkdml.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"**": ["pages"]}
html_context = {
    "most_asked": [
        ("getting-started", "Getting started"),
        ("operators", "Operators"),
        ("gallery/index", "Gallery"),
        ("api", "API"),
        ("benchmarks", "Benchmarks"),
    ]
}
html_theme_options = {
    "navbar_center": ["links"],
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
