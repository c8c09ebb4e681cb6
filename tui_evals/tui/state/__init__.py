"""What the workbench knows, without a screen."""
