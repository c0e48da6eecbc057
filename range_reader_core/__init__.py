"""Read a poker player's hole cards from the public record: parser, tokenizer, model and metrics, free of Dagster."""
