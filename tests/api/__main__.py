"""Write the kept list anew: `make api`."""

from tests.api.listing import LIST, lines

LIST.write_text("\n".join(lines()) + "\n", encoding="utf-8")
