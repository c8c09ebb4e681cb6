"""Dialogs and screens of their own."""
