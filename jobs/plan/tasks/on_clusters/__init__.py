"""Train tasks on deployed clusters: send their code, run trials and trainings as jobs, bring models back."""
