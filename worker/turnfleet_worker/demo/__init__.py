"""The main job: reconcile a CSV of invoices with a CSV of bank payments, and let a person decide what to write off."""
