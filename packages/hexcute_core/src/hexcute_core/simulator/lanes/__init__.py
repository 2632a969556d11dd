"""Scalar code on a batch of lanes under one mask: values, arithmetic, control flow."""
