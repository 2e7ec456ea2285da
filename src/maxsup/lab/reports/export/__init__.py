"""What is shared outside the laboratory as Markdown: model cards, logbooks, pages of evidence."""
