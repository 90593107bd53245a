"""The folder of this package that templates name files of; in a checkout it is that of the checkout."""

from __future__ import annotations

from slipway.jobs.words.installation import containers_folder

CONTAINERS = containers_folder()
