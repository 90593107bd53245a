"""Tasks on deployed clusters: their code is sent, trials and trainings are jobs, and models come back."""
