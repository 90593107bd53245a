"""Where Slurm lies is decided in one place, by its version."""

from slipway.jobs.words.slurm import program_folders


def test_a_release_of_slurm_names_the_folder_of_pcs_and_debians_comes_last() -> None:
    folders = program_folders("25.05.3")
    assert folders[0] == "/opt/aws/pcs/scheduler/slurm-25.05/bin"
    assert folders[-1] == "/usr/bin"
    assert program_folders("25.05") == folders
