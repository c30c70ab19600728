"""Builders, fakes and strategies that several folders of tests share."""
