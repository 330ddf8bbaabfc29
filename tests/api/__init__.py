"""The public interface as a kept list: a change of it is made on purpose, by `make api`."""
