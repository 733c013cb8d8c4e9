"""The smallest changes that help a deployment, each verified by deciding again."""
