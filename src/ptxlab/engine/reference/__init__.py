"""The NumPy back end: the reference that compiled code is tested against."""

from ptxlab.engine.reference._vocabulary import NumpyVocabulary

__all__ = ["NumpyVocabulary"]
