"""Public builders, fakes and strategies for tests, here and of policies written elsewhere. No room imports them."""
