"""The widgets everything is made of: lines, fields, forms, dialogs, and the two lines below the panes."""
