"""A stranger's application: what CONTRIBUTING.md says, followed literally. Nothing outside this folder knows it.

Installed by CAYU_APPS=tests.stranger_app (or wherever a copy of this folder lies) and, for its model,
CAYU_PROVIDERS=stranger=tests.stranger_app.provider.model.
"""
