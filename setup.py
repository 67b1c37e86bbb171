"""Where the packages are: embedders/ and stores/ are folders of the repository, and subpackages once installed.

Through their links in tinymem/ an editable install is a plain path, which type checkers follow too. A clone without
links, as git makes on Windows, is mapped folder by folder, and then only Python itself finds an editable install.
"""

from pathlib import Path

from setuptools import setup

folders = {"tinymem": "tinymem", "tinymem.embedders": "embedders", "tinymem.stores": "stores"}
linked = all(Path(*name.split(".")).is_dir() for name in folders)
setup(package_dir={"": "."} if linked else folders)
