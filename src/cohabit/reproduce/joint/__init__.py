"""The joint policy `cohabit` against the policies it joins, on the ground of each."""
