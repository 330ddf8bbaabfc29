"""Quality presets: trees that suit the data, and the choice and averaging of several trainings into one model."""
