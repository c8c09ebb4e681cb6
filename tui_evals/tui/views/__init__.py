"""Values as rows, without a screen: what each pane shows."""
