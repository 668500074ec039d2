"""Sphinx' settings of the documentation's site; setup/build_site.py calls it on the pages that it has put together."""

from __future__ import annotations

project = "ivsim"
# Single backticks of docstrings.
default_role = "literal"
html_title = "ivsim"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#00695c",
        "color-brand-content": "#00695c",
        "color-brand-visited": "#00695c",
    },
    "dark_css_variables": {
        "color-brand-primary": "#4db6ac",
        "color-brand-content": "#4db6ac",
        "color-brand-visited": "#4db6ac",
    },
}
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Excerpts of what was found would be fetched, which a browser does not do for pages of a folder.
html_show_search_summary = False
# A command's `$ ` and its output are not copied.
copybutton_prompt_text = "$ "
