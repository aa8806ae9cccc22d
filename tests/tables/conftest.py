from hypothesis import settings

# a busy machine is no failure
settings.register_profile("livejoin", deadline=None)
settings.load_profile("livejoin")
